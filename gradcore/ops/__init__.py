"""Operations: one declaration each, from which everything else about an operation follows."""

from gradcore.ops.declare.names import DECLARED
from gradcore.torch_names import paths

#: The modules that declare operations. Each is imported when one of its operations is first looked up.
FAMILIES = tuple(DECLARED)

__getattr__ = paths.further(__name__)
