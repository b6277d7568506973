"""Operations that move elements: views, joins, triangles."""
