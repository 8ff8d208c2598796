"""What every HTTP endpoint shares: authentication, permissions, pagination, errors."""
