package node

import "encoding/json"

// MarshalJSON returns an object with the node's name, the operation, the error's text, its kind
// ([Error.Kind]) and whether it is permanent.
func (e *Error) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Node      string `json:"node"`
		Op        string `json:"op"`
		Error     string `json:"error"`
		Kind      string `json:"kind"`
		Permanent bool   `json:"permanent"`
	}{e.Node, e.Op, e.text(), e.Kind(), e.Permanent()})
}
