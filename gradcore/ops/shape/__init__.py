"""Operations that rearrange elements: views, joins, slices and triangles."""
