package quorumtest

import (
	"context"
	"net"
	"slices"
)

// dial makes a connection in memory to a master. Other addresses are the network's.
func (p *process) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if master := slices.Index(p.masters.addresses, address); master >= 0 {
		return p.Dial(ctx, master)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// dialAsNobody is dial for no process: no fault concerns it.
func (f *fleet) dialAsNobody(_ context.Context, network, address string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	if err := f.world.Serve(slices.Index(f.addresses, address), theirs); err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	return ours, nil
}
