// Package deploy holds what is in deploy/ to account: the chart, the manifests that are
// made from it, and the policies, which are evaluated by the code of the API server.
package deploy
