"""The templates of the targets that come with catgrad: one folder each, as in `backends`."""
