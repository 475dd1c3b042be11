package bus

import "testing"

func TestURLOfABus(t *testing.T) {
	for url, good := range map[string]bool{
		"nats://bus:4222": true, "tls://bus": true, "wss://bus:443": true, "bus:4222": true, "bus": true, "nats://a:1,nats://b:2, c:3": true,
		"": false, "http://bus:4222": false, "nats://": false, "nats://a,http://b": false, "nats://a,": false, "nats://bus:port": false,
	} {
		if err := CheckURL(url); (err == nil) != good {
			t.Errorf("%q: %v", url, err)
		}
	}
}
