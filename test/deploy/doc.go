// Package deploy holds what is in deploy/ to account: the chart, the manifests that are
// made from it, and the policies, which are evaluated by the code of the API server.
//
// It is a module of its own, because Helm and the API server are large.
package deploy
