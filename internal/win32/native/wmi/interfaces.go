package wmi

// method is the place of a method in the table of its interface.
type method uintptr

const (
	locatorConnectServer method = 3 // IWbemLocator

	servicesGetObject  method = 6 // IWbemServices
	servicesExecQuery  method = 20
	servicesExecMethod method = 24

	enumNext method = 4 // IEnumWbemClassObject

	objectGet           method = 4 // IWbemClassObject
	objectPut           method = 5
	objectSpawnInstance method = 15
	objectGetMethod     method = 19
)
