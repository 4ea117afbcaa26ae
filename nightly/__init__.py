"""Many runs in one night: candidates on Kubernetes minors on providers, and one page over all of them."""
