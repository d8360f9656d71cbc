"""Values of options that are hostile."""

HOSTILE = (
    *("", " ", "-", "--", "-1", "0", "nan", "inf", "-inf", "1e400", "1e-400", "9" * 40, "x" * 300),
    *("\0", "a\nb", "\x1b[2J", "é", "\udcff", "%s", "{}", "[1]", "../..", "/", "/dev/null"),
    *("/proc/self/mem", "a,b", ",", "1,,2", "8..", "..8", "8..2", "1..1e9", "2..64:x1", "64M"),
    *("64mib", "5B", "1e300B", "0B/s", "-5us", "1:1", "ring:", "star:x=1", ":", "hgx_h100:nodes=0"),
    *("torus:dims=0", "torus:dims=9999x9999", "ddp:bucket=nan", "resnet50:batch=-1", "no.yaml"),
    *("empty.txt", "binary.bin", "a_folder", "--frob", "--format", "--format=xml", "-h"),
    *("--version", "--p=0"),
)
