"""Programs of the checkout that are not part of the package."""
