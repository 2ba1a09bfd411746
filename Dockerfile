# syntax=docker/dockerfile:1

# The build runs on the builder's own platform and cross-compiles.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS TARGETARCH
ARG VERSION=unknown
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" -o /out/mirror ./cmd/mirror
# A folder that the unprivileged user may write to: FROM scratch has none.
RUN mkdir -p /out/tmp && chmod 1777 /out/tmp && cp "$(go env GOROOT)/lib/time/zoneinfo.zip" /out/zoneinfo.zip

# Nothing but the program: no shell, no package manager, no user that could log in.
FROM scratch
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="feedmirror" \
      org.opencontainers.image.description="Mirrors a data feed into your own bucket, verified, pointer last" \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$REVISION \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/zoneinfo.zip /usr/share/zoneinfo.zip
COPY --from=build /out/tmp /tmp
COPY --from=build /src/LICENSE /LICENSE
COPY --from=build /out/mirror /mirror
ENV ZONEINFO=/usr/share/zoneinfo.zip
USER 65532:65532
ENTRYPOINT ["/mirror"]
