// Command evidence writes docs/evidence/coverage.md: for every method of every version
// of the API, the tests in which the published clients call it. `make generate`
// runs it.
//
// Its tests check two pages. In docs/evidence/coverage.md every method must have a call.
// docs/evidence/compared.md must have a row for each known defect of the existing CSI
// Proxy, and every test that it names must exist.
package main
