"""Whether a service can be reached the way a client would reach it: the resolver of proxies and certificates, and the probe."""
