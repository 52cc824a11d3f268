"""The files behind signed links: open to whoever holds one, without a key."""

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from app.downloads import file_name
from app.errors import ServiceError
from app.service import Service


def routes(service: Service) -> list[Route]:
    """Each file of a checkpoint, and all of them as one archive."""

    def file(request: Request) -> Response:
        checkpoint, name = request.path_params["checkpoint"], request.path_params["name"]
        try:
            path = service.checkpoint_file(checkpoint, name, request.query_params.get("token", ""))
        except ServiceError as refusal:
            return JSONResponse(refusal.body(), refusal.status)
        return FileResponse(path, media_type="application/octet-stream", filename=path.name)

    def archive(request: Request) -> Response:
        checkpoint = request.path_params["checkpoint"]
        try:
            pieces = service.checkpoint_zip(checkpoint, request.query_params.get("token", ""))
        except ServiceError as refusal:
            return JSONResponse(refusal.body(), refusal.status)
        name = file_name(request.query_params.get("name")) or checkpoint
        named = {"Content-Disposition": f'attachment; filename="{name}.zip"'}
        return StreamingResponse(pieces, media_type="application/zip", headers=named)

    return [
        Route("/v1/downloads/{checkpoint}/{name}", file),
        Route("/v1/downloads/{checkpoint}", archive),
    ]
