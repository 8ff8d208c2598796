#!/usr/bin/env python
"""`python manage.py` is the same as `claw`."""

from clawsite.cli.main import main

if __name__ == "__main__":
    main()
