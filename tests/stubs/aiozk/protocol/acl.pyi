from aiozk.protocol.request import Part

class ID(Part):
    scheme: str
    id: str

class ACL(Part):
    perms: int
    id: ID
