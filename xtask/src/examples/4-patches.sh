# The board is emulated, with the real driver of its port (docs/lab.md): macb. What the driver can be told stands for
# what a patch would add. With fewer than six repeats 16 judgements at once cannot tell anything (Holm).
cat >macb.toml <<'PLAN'
format = "linerate.plan/1"
repeat = 7

[[part]]
title = "TCP"
workload = "tcp-stream"
[part.options]
duration = "1s"
[part.factors]
direction = ["rx", "tx"]
"target.gro" = ["off", "on"]

[[part]]
title = "UDP at 60 Mbit/s"
workload = "udp-stream"
[part.options]
duration = "1s"
rate = "60M"
[part.factors]
direction = ["rx", "tx"]
"target.gro" = ["off", "on"]
PLAN
linerate run ./macb.toml --target board:zcu102
linerate report --baseline last:target.gro=off --candidate last:target.gro=on --notes "$NOTES" $REPORT
