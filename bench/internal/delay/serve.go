package delay

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// IsServer reports whether [Start] of another process started this one. Its main must then call
// [Serve] before anything else, and exit.
func IsServer() bool { return os.Getenv(variable) != "" }

// Serve runs the proxies until stdin closes, and returns the exit code.
func Serve() int {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "delay:", err)
		return 1
	}
	return 0
}

func serve(in io.Reader, out io.Writer) error {
	var t task
	if err := json.Unmarshal([]byte(os.Getenv(variable)), &t); err != nil {
		return err
	}
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	toxic := fmt.Sprintf(`{"type": "latency", "stream": "downstream", "attributes": {"latency": %d}}`,
		t.Delay.Milliseconds())
	var urls []string
	for i, upstream := range t.Upstreams {
		proxy := toxiproxy.NewProxy(api, fmt.Sprint(i), "127.0.0.1:0", upstream)
		if err := proxy.Start(); err != nil {
			return err
		}
		if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			return err
		}
		urls = append(urls, "redis://"+proxy.Listen)
	}
	if err := json.NewEncoder(out).Encode(urls); err != nil {
		return err
	}
	// The parent keeps the pipe open as long as it lives.
	_, err := io.Copy(io.Discard, in)
	return err
}
