# The manager in an image with nothing else in it, not even a shell.
#   docker buildx build --build-arg STEERSMAN_COMMIT="$(git rev-parse HEAD)" \
#     --build-arg SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)" \
#     --output type=image,name=registry.example.com/steersman:0.2.0,rewrite-timestamp=true,push=true .
# The same commit gives the same binary, and with these arguments the same image, as long as the image of the compiler, which has the
# C library too, stays the same. A tag may move: for a release, name the compiler's image by the digest that `docker buildx imagetools
# inspect rust:1.95.0-slim` prints, as rust:1.95.0-slim@sha256:...
# The build follows a profile of this compiler. For another one, add --build-arg BUILD_OPTIONS=--without-profile.
# scripts/image.sh does the same without a container engine; with --twice it builds in two places and compares the bytes.
FROM rust:1.95.0-slim AS build
WORKDIR /src
COPY . .
ARG STEERSMAN_COMMIT=""
ARG BUILD_OPTIONS=""
RUN scripts/build-static.sh $BUILD_OPTIONS /out

FROM scratch
ARG STEERSMAN_COMMIT=""
ARG VERSION="0.2.0"
LABEL org.opencontainers.image.title="steersman" \
      org.opencontainers.image.description="The Kubernetes controller manager, in Rust" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${STEERSMAN_COMMIT}" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/ /usr/local/bin/
COPY LICENSE /usr/share/doc/steersman/LICENSE
ENV PATH=/usr/local/bin
# A number, so that runAsNonRoot can be checked without a list of users.
USER 65532:65532
EXPOSE 10257
ENTRYPOINT ["/usr/local/bin/steersman"]
