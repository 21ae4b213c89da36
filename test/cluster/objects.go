package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/csi-driver/driver"
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
	if err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "csi-driver", Name: "smb-account"},
		StringData: map[string]string{driver.Username: smbAccount, driver.Password: smbAccount},
	}
	_, err = c.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: secret.Namespace}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if _, err = c.Client.CoreV1().Secrets(secret.Namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err = c.Client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: ShareStorageClass},
		Provisioner: name, AllowVolumeExpansion: &yes,
		Parameters: map[string]string{
			driver.Kind: driver.KindSMB,
			"csi.storage.k8s.io/node-stage-secret-namespace": secret.Namespace,
			"csi.storage.k8s.io/node-stage-secret-name":      secret.Name,
		},
	}, metav1.CreateOptions{})
	return err
}
