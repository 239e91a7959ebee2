package metering

import "errors"

// Customer is who a registration token stands for, as ResolveCustomer answers (AWS Marketplace Metering API reference).
type Customer struct {
	License            string // empty where the license is not there yet, and for products that meter by identifier
	Account            string // 12 digits
	CustomerIdentifier string // of products that still meter by it
	ProductCode        string
}

// What can be wrong with a registration token.
var (
	ErrTokenInvalid = errors.New("the registration token is not valid")
	ErrTokenExpired = errors.New("the registration token has expired")
)
