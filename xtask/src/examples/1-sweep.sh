# The board is emulated, with the real driver of its port (docs/lab.md): fec.
linerate run udp-sweep --target board:sabrelite --set rate=10M,20M,40M,60M,80M --set duration=1s --set registers=on \
    --set target.pause.autoneg=off --set target.pause.rx=off,on --set 'target.pause.tx=as target.pause.rx'
linerate report last --notes "$NOTES" $REPORT
