# The board is emulated, with the real driver of its port (docs/lab.md): fec.
linerate run canned --target board:sabrelite --set duration=1s --set direction=tx,rx --set socket_buffer=16K,64K \
    --set message_size=1448,8K --set request_size=1,1K
linerate report last --notes "$NOTES" $REPORT
