"""The pages: chat, approvals, policies, runs, account, admin dashboard."""
