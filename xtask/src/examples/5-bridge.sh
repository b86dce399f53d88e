# A board with two ports between two laptops: a bridge and a router in turns. Nothing of linerate runs on it. How fast it
# forwards is set by token buckets at its ports: a tenth of what the report had of each.
for name in ash board elm; do
    ip netns add "$name"
    ip -n "$name" link set lo up
done
for name in ash elm; do
    ip link add eth0 netns "$name" type veth peer name "$name" netns board
    # A port of such a board segments nothing for itself: each packet is forwarded by itself.
    ip netns exec "$name" ethtool -K eth0 tso off gso off gro off >/dev/null
    ip netns exec board ethtool -K "$name" tso off gso off gro off >/dev/null
    ip -n "$name" link set eth0 up
    ip -n board link set "$name" up
done
ip -n ash address add 198.18.0.2/24 dev eth0
ip -n ash route add default via 198.18.0.1
ip netns exec board sysctl -q net.ipv4.ip_forward=1

forwards() {
    for port in ash elm; do
        ip netns exec board tc qdisc replace dev "$port" root tbf rate "$1" burst 16k latency 20ms
    done
}

bridge() {
    forwards 72mbit
    ip -n board address flush dev ash
    ip -n board address flush dev elm
    ip -n board link add br0 type bridge
    ip -n board link set br0 up
    ip -n board link set ash master br0
    ip -n board link set elm master br0
    ip -n elm address flush dev eth0
    ip -n elm address add 198.18.0.3/24 dev eth0
}

router() {
    forwards 32mbit
    ip -n board link delete br0
    ip -n board address add 198.18.0.1/24 dev ash
    ip -n board address add 198.18.1.1/24 dev elm
    ip -n elm address flush dev eth0
    ip -n elm address add 198.18.1.3/24 dev eth0
    ip -n elm route add default via 198.18.1.1
}

for state in bridge router; do
    cat >$state.toml <<PLAN
format = "linerate.plan/1"
name = "$state"
about = "TCP through the board, which is a $state"
workload = "tcp-stream"
repeat = 2

[options]
duration = "1s"
warmup = "300ms"

[factors]
direction = ["tx", "rx"]
PLAN
done

for round in 1 2 3; do
    bridge
    linerate run ./bridge.toml --target netns:ash --host netns:elm --target-address 198.18.0.2 --host-address 198.18.0.3
    router
    linerate run ./router.toml --target netns:ash --host netns:elm --target-address 198.18.0.2 --host-address 198.18.1.3
done
linerate report --baseline :plan=bridge --candidate :plan=router --notes "$NOTES" $REPORT
