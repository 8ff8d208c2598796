"""Static files under names that carry their hash, so that browsers may keep them for ever."""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class HashedAssets(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # whitenoise has no types
    """Also rewrites the imports of our ES modules: a cached module must never load another version's neighbour."""

    support_js_module_import_aggregation = True
