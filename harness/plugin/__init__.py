"""The pytest plugin: which of the catalogue's breaks does a test suite notice?"""
