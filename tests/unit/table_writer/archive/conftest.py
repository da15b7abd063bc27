from tests.support.toy_fixtures import client, quick_files, storage

__all__ = ["client", "quick_files", "storage"]
