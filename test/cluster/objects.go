package cluster

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// makeObjects makes what Kubernetes has to know of the driver.
func (c *Cluster) makeObjects(ctx context.Context) error {
	yes := true
	name := c.driverName()
	_, err := c.Client.StorageV1().CSIDrivers().Create(ctx, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{AttachRequired: &yes},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = c.Client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: StorageClass, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: name, AllowVolumeExpansion: &yes,
	}, metav1.CreateOptions{})
	return err
}
