// Package imports tests what programs link: csi-proxy depends on no simulated node, and a driver
// that uses pkg/mounter links one side of it. It tests how drivers import the modules of this
// project: which lines their go.mod needs, and which modules their build list gains. It builds
// drivers outside the workspace, where replace lines of a dependency have no effect.
package imports
