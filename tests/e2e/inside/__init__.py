"""Programs that tests run in pods of the product's image: by its Python, and files of their own."""
