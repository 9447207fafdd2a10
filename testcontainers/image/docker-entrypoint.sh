#!/bin/sh
# Starts ZooKeeper in the foreground from the environment variables of the official image.
set -eu

serve=no
[ "${1:-}" = zkServer.sh ] && serve=yes

# The server itself never runs as root; files that were copied into its directories become its own first.
if [ "$serve" = yes ] && [ "$(id -u)" = 0 ]; then
    for dir in "$ZOO_CONF_DIR" "$ZOO_DATA_DIR" "$ZOO_DATA_LOG_DIR" "$ZOO_LOG_DIR"; do
        mkdir -p "$dir"
        chown -R zookeeper:zookeeper "$dir"
    done
    exec setpriv --reuid zookeeper --regid zookeeper --clear-groups "$0" "$@"
fi

# A configuration that is already there (mounted, or left from the last start) wins over the environment.
config="$ZOO_CONF_DIR/zoo.cfg"
if [ ! -f "$config" ]; then
    {
        echo "dataDir=$ZOO_DATA_DIR"
        echo "dataLogDir=$ZOO_DATA_LOG_DIR"
        echo "tickTime=$ZOO_TICK_TIME"
        echo "initLimit=$ZOO_INIT_LIMIT"
        echo "syncLimit=$ZOO_SYNC_LIMIT"
        echo "autopurge.snapRetainCount=$ZOO_AUTOPURGE_SNAPRETAINCOUNT"
        echo "autopurge.purgeInterval=$ZOO_AUTOPURGE_PURGEINTERVAL"
        echo "maxClientCnxns=$ZOO_MAX_CLIENT_CNXNS"
        echo "standaloneEnabled=$ZOO_STANDALONE_ENABLED"
        echo "admin.enableServer=$ZOO_ADMINSERVER_ENABLED"
        # Lists are separated by blanks; a `*` among the four-letter words must not become file names.
        set -f
        for server in ${ZOO_SERVERS:-server.1=localhost:2888:3888;2181}; do echo "$server"; done
        [ -z "${ZOO_4LW_COMMANDS_WHITELIST:-}" ] || echo "4lw.commands.whitelist=$ZOO_4LW_COMMANDS_WHITELIST"
        for entry in ${ZOO_CFG_EXTRA:-}; do echo "$entry"; done
        set +f
    } > "$config"
fi

[ -f "$ZOO_DATA_DIR/myid" ] || echo "${ZOO_MY_ID:-1}" > "$ZOO_DATA_DIR/myid"

[ "$serve" = yes ] || exec "$@"

# JVMFLAGS come last, so that they win over the default heap. Without netty-codec.jar, which the package's own class path
# lacks, Netty does not speak TLS.
set -f
# shellcheck disable=SC2086
exec java -Xmx"${ZK_SERVER_HEAP:-1000}"m ${SERVER_JVMFLAGS:-} ${JVMFLAGS:-} \
    -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
    -cp "$ZOO_CONF_DIR:/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar:/usr/share/java/netty-codec.jar" \
    org.apache.zookeeper.server.quorum.QuorumPeerMain "$config"
