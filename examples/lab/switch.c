// A switch in user space: PORTS TAP devices, each with an uplink and a downlink of RATE bit/s,
// DELAY ns one way.
// usage: switch PREFIX PORTS RATE DELAY
// It makes the devices PREFIX0, PREFIX1, ... and prints a line when it is ready.
//
// A frame is delivered when its last bit has crossed uplink and downlink, DELAY later. Frames to one
// port leave in the order in which they came. A frame for TCP segmentation counts as the frames that
// it stands for. The last byte of the destination's address is the port. Broadcasts are dropped.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { PORTS = 64, FRAME = 65536 + 256, ETHERNET = 14 };
typedef struct frame {
    struct frame *next;
    int64_t due;
    int length;
    unsigned char bytes[FRAME];
} frame;
typedef struct { frame *first, **last; double up, down; } port;

static port ports[PORTS];
static struct pollfd devices[PORTS];
static frame *spare;

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int open_tap(const char *prefix, int number) {
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    int header = sizeof(struct virtio_net_hdr), fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    snprintf(request.ifr_name, IFNAMSIZ, "%s%d", prefix, number);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) || ioctl(fd, TUNSETVNETHDRSZ, &header) ||
        ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4)) {
        perror("/dev/net/tun");
        exit(1);
    }
    return fd;
}

// Bytes on the wire: every segment has headers of its own.
static double wire(const frame *f) {
    const struct virtio_net_hdr *offload = (const void *)f->bytes;
    const unsigned char *ip = f->bytes + sizeof *offload + ETHERNET;
    int size = f->length - (int)sizeof *offload;
    if (offload->gso_type == VIRTIO_NET_HDR_GSO_NONE || !offload->gso_size) return size;
    const int ip_header = (ip[0] & 15) << 2;
    const int headers = ETHERNET + ip_header + ((ip[ip_header + 12] >> 4) << 2);
    return size + (size - headers - 1) / offload->gso_size * headers;
}

static void forward(frame *f, int from, int count, double rate, int64_t delay) {
    const unsigned char *address = f->bytes + sizeof(struct virtio_net_hdr);
    if (f->length <= 0 || (address[0] & 1) || address[5] >= count) {
        f->next = spare;
        spare = f;
        return;
    }
    port *in = &ports[from], *out = &ports[address[5]];
    const double bits = wire(f) * 8e9 / rate, time = now(), start = in->up > time ? in->up : time;
    in->up = start + bits;
    out->down = (out->down > start ? out->down : start) + bits;
    f->due = (int64_t)out->down + delay;
    f->next = NULL;
    *out->last = f;
    out->last = &f->next;
}

// Delivers what is due; returns when the next frame will be.
static int64_t deliver(int count) {
    int64_t next = INT64_MAX;
    for (int k = 0; k < count; k++) {
        port *p = &ports[k];
        for (frame *f; (f = p->first) && f->due <= now(); f->next = spare, spare = f) {
            if (write(devices[k].fd, f->bytes, f->length) != f->length) perror("write");
            if (!(p->first = f->next)) p->last = &p->first;
        }
        if (p->first && p->first->due < next) next = p->first->due;
    }
    return next;
}

int main(int argc, char **argv) {
    if (argc != 5 || atoi(argv[2]) > PORTS) return 2;
    const int count = atoi(argv[2]);
    const double rate = atof(argv[3]);
    const int64_t delay = atoll(argv[4]);
    const struct sched_param urgent = {.sched_priority = 10};
    for (int k = 0; k < count; k++) {
        ports[k].last = &ports[k].first;
        devices[k] = (struct pollfd){.fd = open_tap(argv[1], k), .events = POLLIN};
    }
    mlockall(MCL_CURRENT | MCL_FUTURE);
    prctl(PR_SET_TIMERSLACK, 1000);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (sched_setscheduler(0, SCHED_FIFO, &urgent)) perror("no real-time priority");
    puts("ready");
    fflush(stdout);
    for (;;) {
        const int64_t left = deliver(count) - now();
        const int64_t most = 999999999;
        const struct timespec wait = {.tv_nsec = left < 0 ? 0 : left < most ? left : most};
        ppoll(devices, count, &wait, NULL);
        for (int k = 0; k < count; k++) {
            if (!(devices[k].revents & POLLIN)) continue;
            frame *f = spare ? spare : malloc(sizeof *f);
            if (spare) spare = spare->next;
            f->length = (int)read(devices[k].fd, f->bytes, FRAME);
            forward(f, k, count, rate, delay);
        }
    }
}
