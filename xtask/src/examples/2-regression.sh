# Two machines and a cable between them. What is changed on the sender stands for the kernel that is suspected.
ip netns add ash
ip netns add elm
ip link add eth0 netns ash type veth peer name eth0 netns elm
ip -n ash address add 192.0.2.1/24 dev eth0
ip -n elm address add 192.0.2.2/24 dev eth0
for name in ash elm; do
    ip -n "$name" link set lo up
    ip -n "$name" link set eth0 up
done

linerate run ttcp --target netns:ash --host netns:elm --set direction=tx --set bytes=256M \
    --set message_size=1K,8K --set target.tso=on,off --repeat 8
linerate report --baseline last:target.tso=on --candidate last:target.tso=off --notes "$NOTES" $REPORT
