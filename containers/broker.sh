#!/bin/sh
# The broker: one listener, and nobody gets in without the password of the user venn, which is in the file named.
set -eu
umask 077
cd "$(mktemp -d)"
printf 'venn:%s\n' "$(cat "$1")" > passwords
mosquitto_passwd -U passwords
printf 'listener 1883\nallow_anonymous false\npassword_file %s/passwords\nlog_type error\nlog_type warning\n' "$PWD" > broker.conf
exec mosquitto -c "$PWD/broker.conf"
