"""The running scheduler: carries out the effects of `scheduling` against the API server."""
