"""What a picture is written as. Apart from what draws one, which who asks need not have."""

PICTURE_SUFFIXES = (".png", ".svg")


class BadPicture(ValueError):
    """A picture that can't be drawn; the sentence says what to change."""
