package wmi

// method is the index of a method in its interface's table.
type method uintptr

const (
	locatorConnectServer method = 3 // IWbemLocator

	servicesGetObject  method = 6 // IWbemServices
	servicesExecQuery  method = 20
	servicesExecMethod method = 24

	enumNext method = 4 // IEnumWbemClassObject

	resultObject method = 3 // IWbemCallResult

	queryInterface   method = 0 // IUnknown
	errorDescription method = 5 // IErrorInfo

	objectGet           method = 4 // IWbemClassObject
	objectPut           method = 5
	objectSpawnInstance method = 15
	objectGetMethod     method = 19
)
