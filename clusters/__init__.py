"""Where a candidate runs: cluster providers and what they need (processes, credentials, the API facade)."""
