// Command evidence writes docs/evidence/coverage.md: for every method of every version
// of the API, the tests in which the published clients call it. `make generate`
// runs it.
//
// Its tests hold two pages to the code. docs/evidence/coverage.md must be what it writes,
// and may have no hole: a method without a call fails. docs/evidence/compared.md must have
// a row for each known defect of the existing CSI Proxy, and every test that it
// names must exist.
package main
