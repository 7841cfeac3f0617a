# The service as an image: `docker build -t perigee .`, then as deploy/compose.yaml or deploy/kubernetes/ start it.
# Written without a Docker daemon at hand: the image was not built. Report what differs.
FROM node:20.20-bookworm-slim AS build
WORKDIR /source
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY . .
RUN npm pack --pack-destination /tmp && mv /tmp/perigee-*.tgz /tmp/perigee.tgz

FROM node:20.20-bookworm-slim AS packages
WORKDIR /app
COPY --from=build /tmp/perigee.tgz /tmp/perigee.tgz
RUN npm install --omit=dev --no-audit --no-fund --save-exact /tmp/perigee.tgz pg@8.23.1

FROM node:20.20-bookworm-slim
ENV NODE_ENV=production
COPY --from=packages /app /app
COPY deploy/healthy.mjs /app/healthy.mjs
# /data: what a worker has learnt; of use, but may be lost.
RUN ln -s /app/node_modules/.bin/perigee /usr/local/bin/perigee \
  && mkdir /data && chown node:node /data
USER node
WORKDIR /data
EXPOSE 8080
# perigee itself handles signals as process 1: it gives its partitions back within 10 s, and ends after 35 s at the latest.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 CMD ["node", "/app/healthy.mjs"]
ENTRYPOINT ["perigee"]
CMD ["serve", "--host", "0.0.0.0", "--behind-proxy", "--data", "/data"]
