"""``python -m fedbandits``."""

from fedbandits.cli import main

if __name__ == "__main__":
    main()
