# docker build --build-arg VERSION=$(git describe --tags --always) -t fencegate .

FROM --platform=$BUILDPLATFORM golang:1.26.8-alpine AS build
WORKDIR /src
# Modules change less often than the code, so their layer is kept.
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG VERSION=devel
ARG TARGETOS
ARG TARGETARCH
# Without cgo the program needs nothing beside it. The repository is not part of the build, so the version is handed in.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" -o /image/fencegate ./cmd/fencegate
# The user has a name for those who look it up, and a number for those who insist that it is not root.
RUN mkdir -p /image/etc/ssl/certs /image/licenses \
    && echo 'fencegate:x:65532:65532::/:/nonexistent' > /image/etc/passwd \
    && echo 'fencegate:x:65532:' > /image/etc/group \
    && cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ \
    && cp LICENSE /image/licenses/fencegate

# No shell, no package, no loader: the program, its authorities for TLS to S3 and PostgreSQL, and a user.
FROM scratch
ARG VERSION=devel
LABEL org.opencontainers.image.title="fencegate" \
      org.opencontainers.image.description="HTTP gateway that refuses the late writes of paused workers to PostgreSQL rows and S3 objects" \
      org.opencontainers.image.source="https://github.com/fencegate/fencegate" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION"
COPY --from=build /image /
USER 65532:65532
# Beyond loopback the gateway serves only with FENCEGATE_AUTH_FILE.
ENV FENCEGATE_LISTEN=0.0.0.0:8080
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 CMD ["/fencegate", "health"]
ENTRYPOINT ["/fencegate"]
CMD ["serve"]
