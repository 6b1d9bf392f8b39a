"""Names for the other packages of Greenroom only: programs may not rely on them."""

from greenroom.export.exporter import ExportFormat as ExportFormat
from greenroom.export.json_document import LONGEST_IMPORT as LONGEST_IMPORT
