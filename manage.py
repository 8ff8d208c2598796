#!/usr/bin/env python
"""`python manage.py …` and `claw …` are the same commands."""

from clawsite.cli.main import main

if __name__ == "__main__":
    main()
