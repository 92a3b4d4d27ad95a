"""`python -m deploy.lab.slinky`."""

from .main import main

main()
