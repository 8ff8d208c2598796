"""Account pages: profile, devices, access tokens, webhooks."""
