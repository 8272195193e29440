from aiozk.protocol.request import Part

class ID(Part):
    scheme: str
    id: str

class ACL(Part):
    perms: int
    id: ID
    @classmethod
    def make(
        cls,
        scheme: str,
        who: str,
        /,
        read: bool = ...,
        write: bool = ...,
        create: bool = ...,
        delete: bool = ...,
        admin: bool = ...,
    ) -> ACL: ...
