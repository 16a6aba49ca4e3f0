package node

import "encoding/json"

// MarshalJSON returns an object with the node's name, the operation, the error's text, its code
// ([Error.Code]) and whether it is permanent.
func (e *Error) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Node      string `json:"node"`
		Op        string `json:"op"`
		Error     string `json:"error"`
		Code      string `json:"code"`
		Permanent bool   `json:"permanent"`
	}{e.Node, e.Op, e.text(), e.Code(), e.Permanent()})
}
