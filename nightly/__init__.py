"""Many runs in one night: every candidate on every Kubernetes minor on every provider, and one page over all of them."""
